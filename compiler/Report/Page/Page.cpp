// Texts of models are never HTML here: the title is escaped, the report is JSON
// in a data block, and the page's script sets text, not markup. A policy in the
// page's head allows this one script, by its hash, and no connection at all.
#include "compiler/Report/Page/Page.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SHA256.h"

using namespace llvm;

namespace tessera {

namespace page { // written by CMake from the files beside this one
extern const char *const style, *const body, *const script;
} // namespace page

static std::string hashSource(StringRef text) {
  SHA256 hasher;
  hasher.update(text);
  return "'sha256-" + encodeBase64(hasher.final()) + "'";
}

/// In JSON these bytes stand in strings only, where an escape means the same.
/// Without '<' nothing ends the element or opens a comment in it.
static void printEmbedded(StringRef json, raw_ostream &os) {
  while (!json.empty()) {
    size_t plain = json.find_first_of("<>&\xe2");
    os << json.substr(0, plain);
    if (plain == StringRef::npos)
      return;
    json = json.drop_front(plain);
    size_t taken = 1;
    switch (json.front()) {
    case '<': os << "\\u003c"; break;
    case '>': os << "\\u003e"; break;
    case '&': os << "\\u0026"; break;
    default: // line and paragraph separators end a line in a script
      if (json.starts_with("\xe2\x80\xa8") || json.starts_with("\xe2\x80\xa9")) {
        os << (json[2] == '\xa8' ? "\\u2028" : "\\u2029");
        taken = 3;
      } else {
        os << json.front();
      }
    }
    json = json.drop_front(taken);
  }
}

void printPage(StringRef title, StringRef json, raw_ostream &os) {
  os << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
     << "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; "
     << "style-src " << hashSource(page::style) << "; script-src " << hashSource(page::script) << "\">\n"
     << "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
     << "<meta name=\"color-scheme\" content=\"light dark\">\n<title>";
  printHTMLEscaped(json::fixUTF8(title), os);
  os << "</title>\n<style>" << page::style << "</style>\n</head>\n<body>\n"
     << page::body << "<script type=\"application/json\" id=\"report\">";
  printEmbedded(json, os);
  os << "</script>\n<script>" << page::script << "</script>\n</body>\n</html>\n";
}

} // namespace tessera

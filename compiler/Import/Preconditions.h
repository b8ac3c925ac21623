// The schemas of ONNX with our preconditions in front of their inference.
#ifndef TESSERA_COMPILER_IMPORT_PRECONDITIONS_H
#define TESSERA_COMPILER_IMPORT_PRECONDITIONS_H

#include "onnx/defs/schema.h"

#include <string>

namespace tessera::onnx_import {

/// For every run of ONNX's inference over a model that is not ours. What a
/// check refuses is an ImportError, which inference passes on with the node's
/// name even where it is lenient.
class CheckedSchemas : public ::onnx::ISchemaRegistry {
public:
  const ::onnx::OpSchema *GetSchema(const std::string &op, const int maxInclusiveVersion,
                                    const std::string &domain) const override;
};

} // namespace tessera::onnx_import

#endif

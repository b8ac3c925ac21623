// Everything that a tool must know of before it parses IR or a pipeline.
#ifndef TESSERA_COMPILER_REGISTRATION_H
#define TESSERA_COMPILER_REGISTRATION_H

namespace mlir {
class DialectRegistry;
}

namespace tessera {

/// Our dialects and those that our passes produce.
void registerDialects(mlir::DialectRegistry &registry);

/// Our passes, and the upstream ones that test files use.
void registerPasses();

} // namespace tessera

#endif

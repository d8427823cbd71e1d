// Compiles the ops that have parameters, each under its module's strategy: a step of compile.h.
#pragma once
#include "sharding/program/compile_context.h"

namespace trireme::sharding {

// Defines the op's output, or notes a problem.
void CompileOp(CompileContext& context, const Op& op, const EmbedOp& embed);
void CompileOp(CompileContext& context, const Op& op, const LinearOp& linear);
void CompileOp(CompileContext& context, const Op& op, const RmsNormOp& norm);

}  // namespace trireme::sharding

// Compiles the ops without parameters, whose layouts follow from those of their inputs: a step of compile.h.
#pragma once
#include "sharding/program/compile_context.h"

namespace trireme::sharding {

// Defines the op's output, or notes a problem. REQUIRES: its inputs are defined.
void CompileOp(CompileContext& context, const Op& op, const RopeOp& rope);
void CompileOp(CompileContext& context, const Op& op, const AttentionOp& attention);
void CompileOp(CompileContext& context, const Op& op, const GatedActivationOp& gated);
void CompileOp(CompileContext& context, const Op& op, const AddOp& add);
void CompileOp(CompileContext& context, const Op& op, const ScaleOp& scale);
void CompileOp(CompileContext& context, const Op& op, const SelectRowsOp& select);

}  // namespace trireme::sharding

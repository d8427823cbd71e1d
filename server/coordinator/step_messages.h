// Steps between the engine's types and the control stream's messages.
#pragma once
#include "server/engine/step_link.h"
#include "trireme/worker/v1/control.pb.h"

namespace trireme::server {

worker::v1::Step ToMessage(const StepCommand& command);

StepResult FromMessage(const worker::v1::StepResult& message);

}  // namespace trireme::server

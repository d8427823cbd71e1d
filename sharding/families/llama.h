// Llama 2, 3, 3.1, 3.2 and what is built like them (SmolLM2, TinyLlama, …).
#pragma once
#include "sharding/families/families.h"

namespace trireme::sharding {

Family LlamaFamily();

}  // namespace trireme::sharding

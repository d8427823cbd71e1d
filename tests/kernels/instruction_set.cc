// Lets the same tests run on a lesser instruction set than the machine's: TRIREME_TEST_WITHOUT=avx512, or
// =avx2 for the portable code.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "hwy/targets.h"

namespace {

class InstructionSet : public testing::Environment {
 public:
  void SetUp() override {
    const char* without = std::getenv("TRIREME_TEST_WITHOUT");
    if (without == nullptr) return;
    const std::string name = without;
    ASSERT_TRUE(name == "avx512" || name == "avx2") << name;
    hwy::DisableTargets(name == "avx2" ? HWY_AVX3 | HWY_AVX2 : HWY_AVX3);
  }
};

[[maybe_unused]] const testing::Environment* const kInstructionSet =
    testing::AddGlobalTestEnvironment(new InstructionSet);

}  // namespace

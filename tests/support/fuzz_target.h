// A fuzz target: libFuzzer's entry point (option TRIREME_FUZZ), which fuzz_corpus_test.cc calls too.
#pragma once
#include <cstddef>
#include <cstdint>

// Never fails on any input but by CHECK, a sanitizer or a crash. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// Makes the files that the readers are tested with.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sharding/checkpoint/byte_source.h"

namespace trireme::sharding {

inline std::filesystem::path Fixture(std::string_view path) { return std::filesystem::path(TRIREME_FIXTURES) / path; }

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void WriteFile(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline MemoryBytes InMemory(std::string_view bytes) {
  return MemoryBytes(std::as_bytes(std::span(bytes.data(), bytes.size())), "test");
}

// An empty folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme_checkpoint_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The little-endian bytes of numbers and GGUF strings, one after another.
class BytesBuilder {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> BytesBuilder& Add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  BytesBuilder& String(std::string_view text) {
    Add(std::uint64_t{text.size()});
    bytes_ += text;
    return *this;
  }
  BytesBuilder& Raw(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  BytesBuilder& PadTo(std::size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A safetensors file of this header and so many zero bytes of data.
inline std::string Safetensors(std::string_view json, std::size_t data_bytes) {
  return BytesBuilder().Add(std::uint64_t{json.size()}).Raw(json).Raw(std::string(data_bytes, '\0')).bytes();
}

}  // namespace trireme::sharding

// Tokens of one request → messages of the public API.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "server/engine/request.h"
#include "server/text/incremental_decoder.h"
#include "server/text/tokenizer.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::server {

// The text of the output is defined here, once, for streams and single answers: what an IncrementalDecoder makes of the
// tokens, without the stop token (the end of sequence is a special token like others).
//
// Not thread-safe.
class GenerationOutput {
 public:
  struct Options {
    std::string request_id = {};
    std::uint32_t num_prompt_tokens = 0;
    std::uint64_t seed = 0;
    bool is_stream = true;
    bool skip_special_tokens = true;
    std::set<std::uint32_t> stop_token_ids = {};           // give no text
    std::shared_ptr<const Tokenizer> tokenizer = nullptr;  // null: all text is empty
  };

  explicit GenerationOutput(Options options);

  void Add(std::span<const GeneratedToken> tokens);

  // No tokens follow: what text was held back comes out.
  void End();

  // Whether there is something that no chunk has told yet. Never in an answer that is no stream.
  bool has_delta() const { return num_unread_bytes_ > 0; }

  // Size of that, in about as many bytes as it takes on the wire.
  std::size_t num_unread_bytes() const { return num_unread_bytes_; }

  // All that came since the last chunk. REQUIRES: has_delta().
  v1::GenerateResponse TakeChunk();

  // The last message. REQUIRES: End() was called, and !has_delta().
  v1::GenerateResponse TakeComplete(const Finish& finish);

 private:
  void AddText(std::string text);
  void AddLogprob(const GeneratedToken& token);
  std::string TokenBytes(std::uint32_t id) const;
  v1::Usage usage() const;

  const Options options_;
  std::optional<IncrementalDecoder> decoder_;
  v1::Chunk delta_;
  std::size_t num_unread_bytes_ = 0;
  v1::Completion whole_;
};

}  // namespace trireme::server

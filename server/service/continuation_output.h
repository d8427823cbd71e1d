// Tokens of one of a request's `n` sequences → what the public API says of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "server/engine/request.h"
#include "server/text/incremental_decoder.h"
#include "server/text/stop_strings.h"
#include "server/text/tokenizer.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::server {

// What a request wants to be told, and how its text is made.
struct OutputPlan {
  std::string request_id = {};
  std::uint32_t num_prompt_tokens = 0;
  std::uint64_t seed = 0;
  std::uint32_t n = 1;
  bool is_stream = true;
  bool skip_special_tokens = true;
  std::set<std::uint32_t> stop_token_ids = {};                // give no text, unless includes_stop
  std::shared_ptr<const StopStrings> stop_strings = nullptr;  // null if there are none
  std::uint32_t min_tokens = 0;                               // a stop string counts if a later token completes it
  bool includes_stop = false;                                 // the stop string, or the stop token's text, is shown
  std::optional<std::string> echo = std::nullopt;             // the prompt's text, with which each text begins
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;       // null: all text is empty
};

// The text of an output is defined here, once, for streams and single answers: the echo, then what an
// IncrementalDecoder makes of the tokens (the end of sequence is a special token like others), without the stop token's
// text, up to the first stop string. Token ids are all that were sampled, the one which completed the stop string last.
//
// Not thread-safe.
class ContinuationOutput {
 public:
  // `plan` outlives this.
  ContinuationOutput(const OutputPlan& plan, std::uint32_t index);

  // They go out with the next chunk that has tokens; what would make that larger than about 1 MiB, in chunks before it.
  void AddPromptLogprobs(std::span<const GeneratedToken> tokens);

  // kStop: a stop string is complete. Tokens of `tokens` that come after it, and of later calls, are left out.
  AfterTokens Add(std::span<const GeneratedToken> tokens);

  // No tokens follow: what text was held back comes out. A stop string goes before the engine's reason.
  void End(const Finish& finish);

  bool is_ended() const { return is_ended_; }

  // Whether there is something that no chunk has told yet. Never in an answer that is no stream.
  bool has_delta() const { return has_delta_; }

  // Size of what was made since the last chunk, in about as many bytes as it takes on the wire. What comes of the
  // prompt does not count.
  std::size_t num_unread_bytes() const { return num_unread_bytes_; }

  // All that came since the last chunk, or a part of the prompt's. REQUIRES: has_delta().
  v1::Chunk TakeChunk();

  // REQUIRES: is_ended(), !has_delta(), and it was not taken before.
  v1::Completion TakeCompletion();

  std::uint32_t num_tokens() const { return static_cast<std::uint32_t>(whole_.token_ids_size()); }

 private:
  using Logprobs = google::protobuf::RepeatedPtrField<v1::TokenLogprob>;

  v1::Chunk TakePromptLogprobs();
  void AddPromptLogprob(v1::TokenLogprob&& proto);
  void AddToken(const GeneratedToken& token);
  void AddText(std::string_view text);
  void AddLogprob(const GeneratedToken& token);
  void SetFinish(const Finish& finish);

  const OutputPlan& plan_;
  std::optional<IncrementalDecoder> decoder_;
  StopFilter stop_filter_;
  std::deque<Logprobs> prompt_logprobs_;       // of a stream: of each chunk that is to tell them
  std::size_t num_prompt_logprobs_bytes_ = 0;  // of the last of these
  v1::Chunk delta_;
  v1::Completion whole_;
  std::size_t num_unread_bytes_ = 0;
  bool has_delta_ = false;
  bool is_ended_ = false;
};

}  // namespace trireme::server

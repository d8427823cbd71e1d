// What requests must keep to, in one place. GetModelInfo publishes ServiceLimits; the constants are in the proto's
// comments.
#pragma once
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace trireme::server {

// 0 is greedy. Below the minimum the quotient of logit and temperature could leave float's range.
inline constexpr float kMinTemperature = 1e-4f;
inline constexpr float kMaxTemperature = 100;
constexpr bool IsTemperature(float value) {
  return value == 0 || (value >= kMinTemperature && value <= kMaxTemperature);
}

// A penalty of 1 does nothing; far from it the product of logit and penalty could leave float's range.
inline constexpr float kMinRepetitionPenalty = 0.01f;
inline constexpr float kMaxRepetitionPenalty = 100;

// Presence and frequency penalties and biases are added to logits: from minus this to this.
inline constexpr float kMaxAddedPenalty = 2;
inline constexpr float kMaxLogitBias = 100;

inline constexpr int kMaxPriority = 100;  // and as far below 0

// Levels of template_variables_json and extra_json: JSON is copied by recursion.
inline constexpr int kMaxJsonDepth = 64;

// Strings, messages (entries of a map as well) and unknown fields in one request. Bounds what is made of its bytes.
inline constexpr std::uint32_t kMaxMessageParts = 1u << 17;

struct ServiceLimits {
  std::uint32_t max_message_bytes = 64u << 20;  // of a request, encoded; gRPC refuses a larger one
  std::uint32_t max_text_bytes = 1u << 20;      // of text, of a chat, of a rendered chat
  std::uint32_t chat_message_bytes = 64;        // that each message of a chat counts, beside its own
  std::uint32_t max_detokenize_ids = 1u << 20;  // so that their text fits into a message
  std::uint32_t max_request_id_bytes = 128;
  std::uint32_t max_cache_salt_bytes = 128;
  std::uint32_t max_stop_token_ids = 256;
  std::uint32_t max_stop_strings = 64;
  std::uint32_t max_stop_string_bytes = 1024;
  std::uint32_t max_bad_words = 256;
  std::uint32_t max_bad_word_bytes = 256;
  std::uint32_t max_logit_bias = 1024;  // entries
  std::uint32_t max_logprobs = 20;
  std::uint32_t max_n = 64;
  std::uint32_t max_abort_ids = 4096;
  std::uint32_t max_abort_reason_bytes = 256;
  // What may wait for a client that reads slowly. Beside it gRPC itself holds about 4 MB for each stream.
  std::uint32_t max_unread_bytes = 1u << 20;
  // How long a client may take to read what comes before an error; then the call is cancelled.
  absl::Duration error_patience = absl::Seconds(30);

  // Tokenizing and template rendering happen on threads of their own, so that they never hold up streams.
  int num_text_threads = 2;
  std::size_t max_waiting_texts = 1024;             // beyond it a request is refused
  std::size_t max_waiting_text_bytes = 256u << 20;  // of requests as they came; likewise

  // What RetryInfo tells a client that was refused for now.
  absl::Duration retry_delay = absl::Seconds(1);
};

}  // namespace trireme::server

#include "client/cli/answer_printer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace trireme::client {
namespace {

std::string Quoted(const std::string& bytes) { return absl::StrCat("\"", absl::Utf8SafeCEscape(bytes), "\""); }

// "eos", "length", "stop at "END"", ...
std::string Reason(const v1::Completion& completion) {
  std::string name =
      absl::AsciiStrToLower(absl::StripPrefix(v1::FinishReason_Name(completion.finish_reason()), "FINISH_REASON_"));
  if (completion.has_matched_stop_string()) {
    absl::StrAppend(&name, " at ", Quoted(completion.matched_stop_string()));
  }
  return name;
}

// The text, or the ids where there is none.
std::string TextOrIds(const v1::Completion& completion) {
  return completion.text().empty() ? absl::StrJoin(completion.token_ids(), " ") : completion.text();
}

}  // namespace

AnswerPrinter::AnswerPrinter(Terminal& terminal, std::uint32_t num_continuations)
    : terminal_(terminal), start_(Clock::now()), num_continuations_(std::max(num_continuations, 1u)) {}

void AnswerPrinter::Print(const v1::GenerateResponse& response) {
  if (response.has_chunk()) TakeChunk(response.chunk());
  if (response.has_complete()) TakeComplete(response.complete());
}

void AnswerPrinter::TakeChunk(const v1::Chunk& chunk) {
  if (chunk.token_ids_size() > 0) {
    last_token_ = Clock::now();
    if (!first_token_.has_value()) first_token_ = last_token_;
  }
  v1::Completion& continuation = continuations_[chunk.index()];
  continuation.mutable_text()->append(chunk.text());
  continuation.mutable_token_ids()->MergeFrom(chunk.token_ids());
  continuation.mutable_logprobs()->MergeFrom(chunk.logprobs());
  continuation.mutable_prompt_logprobs()->MergeFrom(chunk.prompt_logprobs());
  if (!is_single() || chunk.text().empty()) return;
  terminal_.out << chunk.text() << std::flush;
  is_line_open_ = true;
}

// Chunks have told all but the end of it, unless there were none.
void AnswerPrinter::TakeComplete(const v1::Complete& complete) {
  seed_ = complete.seed();
  for (const v1::Completion& whole : complete.completions()) {
    v1::Completion& continuation = continuations_[whole.index()];
    const bool was_streamed = continuation.token_ids_size() > 0 || !continuation.text().empty();
    if (!was_streamed) {
      continuation = whole;
    } else {
      continuation.set_finish_reason(whole.finish_reason());
      if (whole.has_matched_stop_string()) continuation.set_matched_stop_string(whole.matched_stop_string());
    }
    if (!is_single() || is_line_open_) continue;
    terminal_.out << TextOrIds(continuation);
    is_line_open_ = true;
  }
}

std::string AnswerPrinter::Title(std::uint32_t index) const {
  return absl::StrCat("[", index + 1, " of ", num_continuations_, "]\n");
}

void AnswerPrinter::EndText() {
  if (is_line_open_) terminal_.out << "\n";
  is_line_open_ = false;
  const bool is_empty = num_tokens() == 0 && !seed_.has_value();
  if (!is_single() && !is_empty) {
    for (const auto& [index, continuation] : continuations_) {
      terminal_.out << Title(index) << TextOrIds(continuation) << "\n";
    }
  }
  terminal_.out << std::flush;
}

void AnswerPrinter::PrintLogprobs(const v1::Completion& continuation) {
  if (continuation.prompt_logprobs_size() > 0) {
    terminal_.err << "prompt:\n";
    for (const v1::TokenLogprob& logprob : continuation.prompt_logprobs()) PrintLogprob(logprob);
    if (continuation.logprobs_size() > 0) terminal_.err << "output:\n";
  }
  for (const v1::TokenLogprob& logprob : continuation.logprobs()) PrintLogprob(logprob);
}

void AnswerPrinter::PrintLogprob(const v1::TokenLogprob& logprob) {
  terminal_.err << absl::StrFormat("%9.4f  rank %-6d token %-7d %s", logprob.logprob(), logprob.rank(),
                                   logprob.token_id(), Quoted(logprob.token()));
  for (const v1::TopLogprob& top : logprob.top()) {
    terminal_.err << absl::StrFormat("  | %.4f %d %s", top.logprob(), top.token_id(), Quoted(top.token()));
  }
  terminal_.err << "\n";
}

int AnswerPrinter::num_tokens() const {
  int total = 0;
  for (const auto& [index, continuation] : continuations_) total += continuation.token_ids_size();
  return total;
}

std::string AnswerPrinter::Summary() const {
  std::string line = absl::StrCat(num_tokens(), num_tokens() == 1 ? " token" : " tokens");
  if (!is_single()) absl::StrAppend(&line, " in ", num_continuations_, " continuations");
  if (first_token_.has_value()) {
    absl::StrAppendFormat(&line, ", time to first token %.0f ms",
                          absl::ToDoubleMilliseconds(absl::FromChrono(*first_token_ - start_)));
    // The first token belongs to the prompt's time.
    const double seconds = absl::ToDoubleSeconds(absl::FromChrono(last_token_ - *first_token_));
    if (num_tokens() > 1 && seconds > 0) absl::StrAppendFormat(&line, ", %.1f tokens/s", (num_tokens() - 1) / seconds);
  }
  if (!seed_.has_value()) return line;
  const auto append_reason = [](std::string* text, const auto& one) { absl::StrAppend(text, Reason(one.second)); };
  absl::StrAppend(&line, ", finished: ", absl::StrJoin(continuations_, "; ", append_reason), ", seed ", *seed_);
  return line;
}

void AnswerPrinter::PrintSummary() {
  EndText();
  for (const auto& [index, continuation] : continuations_) {
    const bool has_logprobs = continuation.logprobs_size() > 0 || continuation.prompt_logprobs_size() > 0;
    if (has_logprobs && !is_single()) terminal_.err << Title(index);
    PrintLogprobs(continuation);
  }
  terminal_.err << "[" << Summary() << "]\n" << std::flush;
}

}  // namespace trireme::client

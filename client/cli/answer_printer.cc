#include "client/cli/answer_printer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace trireme::client {
namespace {

// "eos", "length", ...
std::string ReasonName(v1::FinishReason reason) {
  return absl::AsciiStrToLower(absl::StripPrefix(v1::FinishReason_Name(reason), "FINISH_REASON_"));
}

std::string Quoted(const std::string& bytes) { return absl::StrCat("\"", absl::Utf8SafeCEscape(bytes), "\""); }

}  // namespace

void AnswerPrinter::Print(const v1::GenerateResponse& response) {
  if (response.has_chunk()) PrintChunk(response.chunk());
  if (response.has_complete()) PrintComplete(response.complete());
}

void AnswerPrinter::PrintChunk(const v1::Chunk& chunk) {
  if (chunk.token_ids_size() > 0) {
    last_token_ = Clock::now();
    if (!first_token_.has_value()) first_token_ = last_token_;
  }
  num_tokens_ += chunk.token_ids_size();
  text_ += chunk.text();
  logprobs_.insert(logprobs_.end(), chunk.logprobs().begin(), chunk.logprobs().end());
  terminal_.out << chunk.text() << std::flush;
}

void AnswerPrinter::PrintComplete(const v1::Complete& complete) {
  complete_ = complete;
  if (complete.completions().empty()) return;
  const v1::Completion& completion = complete.completions(0);
  if (num_tokens_ == 0) {  // not streamed
    num_tokens_ = completion.token_ids_size();
    text_ = completion.text();
    logprobs_.assign(completion.logprobs().begin(), completion.logprobs().end());
    terminal_.out << text_;
  }
  if (!text_.empty()) return;
  for (int i = 0; i < completion.token_ids_size(); ++i) {
    terminal_.out << (i == 0 ? "" : " ") << completion.token_ids(i);
  }
}

void AnswerPrinter::PrintLogprob(const v1::TokenLogprob& logprob) {
  terminal_.err << absl::StrFormat("%9.4f  rank %-6d token %-7d %s", logprob.logprob(), logprob.rank(),
                                   logprob.token_id(), Quoted(logprob.token()));
  for (const v1::TopLogprob& top : logprob.top()) {
    terminal_.err << absl::StrFormat("  | %.4f %d %s", top.logprob(), top.token_id(), Quoted(top.token()));
  }
  terminal_.err << "\n";
}

void AnswerPrinter::PrintSummary() {
  terminal_.out << "\n" << std::flush;
  for (const v1::TokenLogprob& logprob : logprobs_) PrintLogprob(logprob);
  std::string line = absl::StrCat(num_tokens_, num_tokens_ == 1 ? " token" : " tokens");
  if (first_token_.has_value()) {
    absl::StrAppendFormat(&line, ", time to first token %.0f ms",
                          absl::ToDoubleMilliseconds(absl::FromChrono(*first_token_ - start_)));
    // The first token belongs to the prompt's time.
    const double seconds = absl::ToDoubleSeconds(absl::FromChrono(last_token_ - *first_token_));
    if (num_tokens_ > 1 && seconds > 0) absl::StrAppendFormat(&line, ", %.1f tokens/s", (num_tokens_ - 1) / seconds);
  }
  if (complete_.has_value() && !complete_->completions().empty()) {
    const v1::Completion& completion = complete_->completions(0);
    absl::StrAppend(&line, ", finished: ", ReasonName(completion.finish_reason()));
    if (completion.has_matched_stop_string()) absl::StrAppend(&line, " at ", Quoted(completion.matched_stop_string()));
    absl::StrAppend(&line, ", seed ", complete_->seed());
  }
  terminal_.err << "[" << line << "]\n" << std::flush;
}

}  // namespace trireme::client

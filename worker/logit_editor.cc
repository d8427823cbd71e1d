#include "worker/logit_editor.h"

#include <algorithm>

namespace trireme::worker {
namespace {

using kernels::cpu::LogitEdit;

constexpr std::int32_t kNone = -1;

// Whether all but the word's last token are the end of `tokens`.
bool IsAboutToComplete(std::span<const std::int32_t> word, std::span<const std::int32_t> tokens) {
  const std::span<const std::int32_t> before = word.first(word.size() - 1);
  return before.size() <= tokens.size() && std::equal(before.begin(), before.end(), tokens.end() - before.size());
}

}  // namespace

LogitEditor::LogitEditor(sharding::Interval part) : part_(part), index_of_(part.size(), kNone) {
  edits_.reserve(part.size());
}

std::span<const LogitEdit> LogitEditor::EditsFor(const SamplingSettings& settings, const History& history) {
  for (const LogitEdit& edit : edits_) index_of_[edit.id - part_.begin] = kNone;
  edits_.clear();
  for (const auto& [id, bias] : settings.logit_bias) {
    if (LogitEdit* edit = Find(id)) edit->bias = bias;
  }
  AddRepetitions(settings, history);
  AddMasks(settings, history);
  return edits_;
}

LogitEdit* LogitEditor::Find(std::int32_t id) {
  if (id < part_.begin || id >= part_.end) return nullptr;
  std::int32_t& index = index_of_[id - part_.begin];
  if (index == kNone) {
    index = static_cast<std::int32_t>(edits_.size());
    edits_.push_back({.id = id});
  }
  return &edits_[index];
}

void LogitEditor::Mask(std::int32_t id) {
  if (LogitEdit* edit = Find(id)) edit->is_masked = true;
}

void LogitEditor::AddRepetitions(const SamplingSettings& settings, const History& history) {
  if (settings.repetition_penalty != 1) {
    for (const std::int32_t id : history.tokens) {
      if (LogitEdit* edit = Find(id)) edit->is_repeated = true;
    }
  }
  if (settings.has_output_penalties()) {
    for (const std::int32_t id : history.tokens.last(history.num_generated())) {
      if (LogitEdit* edit = Find(id)) ++edit->num_generated;
    }
  }
}

void LogitEditor::AddMasks(const SamplingSettings& settings, const History& history) {
  for (const std::vector<std::int32_t>& word : settings.bad_words) {
    if (IsAboutToComplete(word, history.tokens)) Mask(word.back());
  }
  if (history.num_generated() < settings.min_tokens) {
    for (const std::int32_t id : settings.ending_token_ids) Mask(id);
  }
}

kernels::cpu::LogitPenalties PenaltiesOf(const SamplingSettings& settings) {
  return {.repetition = settings.repetition_penalty,
          .frequency = settings.frequency_penalty,
          .presence = settings.presence_penalty};
}

}  // namespace trireme::worker

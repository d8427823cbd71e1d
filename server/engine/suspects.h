// Which sequence kills its workers. When the group is lost, every sequence of a step in flight may be the cause: all of
// them are suspects. The next group meets suspects one at a time, beside those that are cleared, so that another loss
// tells which one it was. A suspect is cleared as soon as all that was in flight of it has been computed.
//
// Goals: a request that always kills its worker at the same token costs two losses, and nobody else their answer. Not a
// goal: a loss that it takes two requests to bring about. Somebody who kills workers by hand can make a suspect of an
// innocent one, and convict it if they strike again before it is cleared.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trireme::server {

// What a step computes of a sequence.
struct StepPart {
  std::uint64_t key = 0;           // the sequence's
  std::uint32_t num_computed = 0;  // tokens of it that are computed when the step is done
};

// Not thread-safe: the engine's thread owns it.
class Suspects {
 public:
  struct Loss {
    std::uint64_t generation = 0;  // of the group that was lost
    std::string cause;
  };
  struct Conviction {
    std::uint64_t key = 0;
    std::string reason;                      // for people: the number of losses and their causes
    std::vector<std::uint64_t> generations;  // of the groups that it cost
  };

  // The group was lost with these parts in flight, of sequences that are alive; a sequence may be there several times.
  // If exactly one suspect is among them, it is the culprit and is forgotten here; otherwise all of them are suspects.
  std::optional<Conviction> OnLoss(std::span<const StepPart> in_flight, const Loss& loss);

  // The step of this part came back.
  void OnDone(const StepPart& part);

  // The sequence has ended.
  void Forget(std::uint64_t key) { suspects_.erase(key); }

  bool Contains(std::uint64_t key) const { return suspects_.contains(key); }

 private:
  struct Suspect {
    std::uint32_t num_computed = 0;  // it is cleared once so many tokens of it are computed
    std::vector<Loss> losses;        // at which it was in flight
  };

  Conviction Convict(std::uint64_t key, const Loss& last);

  std::map<std::uint64_t, Suspect> suspects_;
};

}  // namespace trireme::server

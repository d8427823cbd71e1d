// Which KV blocks hold which tokens, so that no sequence computes a prefix that another has computed.
//
// A full block is known by the block before it, its salt and its tokens, all of which are compared: a lookup by hash
// alone would show one user another's text where two hashes are the same. Blocks are shared by counting their holders.
// Those that nobody holds count as free and stay findable until they are given out, least recently used first.
//
// Sequences hold equally many blocks of each KV group, so a block here is one of each group, under the same number.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "server/engine/kv_block_pool.h"

namespace trireme::server {

// Names a cached block together with all that precede it; 0 is the empty prefix. Never given twice.
using PrefixId = std::uint64_t;

struct CachedPrefix {
  std::vector<std::uint32_t> blocks;
  std::uint32_t num_held = 0;  // of `blocks`: the others are free
  PrefixId id = 0;
};

// Not thread-safe: the engine's thread owns it.
class PrefixCache {
 public:
  // REQUIRES: kv_block_tokens > 0.
  PrefixCache(std::uint32_t num_blocks, std::uint32_t kv_block_tokens);

  std::uint32_t num_blocks() const { return pool_.num_blocks(); }
  // That nobody holds.
  std::uint32_t num_free() const;

  // The longest prefix of `tokens` that is cached, in whole blocks. Changes nothing.
  CachedPrefix Find(std::string_view salt, std::span<const std::uint32_t> tokens) const;

  // Holds blocks that Find has just found, once more.
  void Hold(std::span<const std::uint32_t> blocks);

  // Holds `count` blocks of no content. REQUIRES: count <= num_free().
  std::vector<std::uint32_t> Allocate(std::uint32_t count);

  // Lets go of blocks, which are in the order of their positions: the last are forgotten first, for nothing is found
  // behind a hole. REQUIRES: held.
  void Release(std::span<const std::uint32_t> blocks);

  // Of each of these lists of held blocks, how many stay held when it is released after those before it.
  std::vector<std::uint32_t> CountLasting(std::span<const std::span<const std::uint32_t>> lists) const;

  // Makes a block findable and returns the name of the prefix that ends with it. Where such a block is there already,
  // `block` stays what it is, and the name is the other's. `tokens` are those in the block, as many as it takes.
  // REQUIRES: held, not registered, not written any more.
  PrefixId Register(PrefixId before, std::string_view salt, std::span<const std::uint32_t> tokens, std::uint32_t block);

 private:
  // What precedes, salt, tokens. Behind the empty prefix the salt is told; others have it from there.
  using Key = std::tuple<PrefixId, std::string, std::vector<std::uint32_t>>;
  struct Entry {
    PrefixId id = 0;
    std::uint32_t block = 0;
  };
  using Entries = std::map<Key, Entry>;
  struct Block {
    std::uint32_t num_holders = 0;
    std::optional<Entries::iterator> entry;
    std::uint64_t unheld_since = 0;  // by the clock of releases, if it has an entry and no holder
  };

  static Key MakeKey(PrefixId before, std::string_view salt, std::span<const std::uint32_t> tokens);
  void ForgetOldest();

  const std::uint32_t kv_block_tokens_;
  KvBlockPool pool_;  // blocks without entry that nobody holds are free there
  std::vector<Block> blocks_;
  Entries entries_;
  std::map<std::uint64_t, std::uint32_t> unheld_;  // blocks with an entry that nobody holds, by unheld_since
  PrefixId last_id_ = 0;
  std::uint64_t num_releases_ = 0;
};

}  // namespace trireme::server

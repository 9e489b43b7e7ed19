#pragma once

#include <cstdint>

namespace sluice::kernels {

// Known to the host. Block ids of one KV memory.
struct BlockCopy {
  int32_t from = 0;
  int32_t to = 0;
};

// Where a step's tokens sit in their sequences and in the paged KV memory. B sequences, T token
// rows; the rows of one sequence follow one another, in order of position. Pointers are device
// memory.
struct AttentionLayout {
  int32_t sequences = 0;                    // B
  int32_t tokens = 0;                       // T
  const int32_t* query_begin = nullptr;     // [B+1] first row of each sequence; query_begin[B] == T
  const int32_t* first_position = nullptr;  // [B] position of the sequence's first row in this step
  const int32_t* positions = nullptr;       // [T]
  const int32_t* kv_slots =
      nullptr;  // [T] block id * block_size + offset: where the row's K and V go
  const int32_t* block_table =
      nullptr;  // [B, blocks_max] block ids in order; entries past the context are unspecified
  int32_t blocks_max = 0;  // row stride of block_table
  // Known to the host, for choosing launch shapes.
  int32_t query_max = 0;    // most rows of one sequence
  int32_t context_max = 0;  // most positions attended by one row
};

}  // namespace sluice::kernels

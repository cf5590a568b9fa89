#pragma once
// The left operand of a product: read where it is or, where it has to be computed, made for the rows of one tile in
// task-local memory. So is one that is multiplied in pairs which are not neighbours.
#include <functional>

#include "schedule/builder.h"

namespace wholestep::schedule {

/// What `make` gives at the depth of `with`, and at the next step of the innermost axis, as a pair of bf16.
ExprId pair_of(NestBuilder& builder, NestBuilder::Substitution& with, const std::function<ExprId()>& make);

class LeftOperand {
 public:
  /// `value` (of the kernel) along the axis `row`, which is cut into tiles of `tile_rows` that `row_tile` counts; with
  /// `pairs`, two steps of the depth are one factor.
  LeftOperand(NestBuilder& builder, ExprId value, loops::Axis row, Var row_tile, int tile_rows, bool pairs);

  bool is_made() const { return made_; }
  /// Makes `rows` rows of a tile.
  Block make(std::int64_t rows);
  /// Has what the next tile is made of brought into the cache.
  Block fetch_next();
  /// The factor of row `row` of the tile, at the depth that `with` gives the kernel's axes.
  ExprId factor(Var row, NestBuilder::Substitution& with);

 private:
  const loops::Stage& sum() const { return builder_.kernel().stages[0]; }
  void choose();
  Block fetch_rows(const Affine& first);
  Block fetch_columns(const Affine& first);
  void for_each_read(const std::function<void(ExprId, const loops::Expr&)>& visit) const;
  Affine place(Var row, const NestBuilder::Substitution& with) const;

  NestBuilder& builder_;
  const ExprId value_;
  const loops::Axis row_;
  const Var row_tile_;
  const int tile_rows_;
  const bool pairs_;

  bool made_ = false;
  bool along_depth_ = false;  // the vectors that make it; else along the rows
  bool holds_pairs_ = false;  // as i32
  std::int64_t pitch_ = 0;    // of a row, or of a step of the depth
  DType dtype_ = DType::f32;
  int buffer_ = -1;
};

}  // namespace wholestep::schedule

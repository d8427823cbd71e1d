// Two macros that pass an absl::Status up.
#pragma once
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expression` is not OK.
#define RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                     \
    if (absl::Status status_or_ok = (expression); !status_or_ok.ok()) return status_or_ok; \
  } while (false)

// ASSIGN_OR_RETURN(Foo foo, MakeFoo()): assigns the value, or returns the error.
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_IMPL_(TRIREME_CONCAT_(status_or_, __LINE__), declaration, expression)

#define TRIREME_CONCAT_INNER_(a, b) a##b
#define TRIREME_CONCAT_(a, b) TRIREME_CONCAT_INNER_(a, b)
// NOLINTBEGIN(bugprone-macro-parentheses): what is declared takes none.
#define ASSIGN_OR_RETURN_IMPL_(temporary, declaration, expression) \
  auto temporary = (expression);                                   \
  if (!temporary.ok()) return std::move(temporary).status();       \
  declaration = *std::move(temporary)
// NOLINTEND(bugprone-macro-parentheses)

// CHECK: our own mistakes end the process at once, with both values. The world's faults are an absl::Status.
#pragma once
#include <functional>
#include <optional>
#include <sstream>
#include <string>

namespace trireme::internal {

// Collects what is streamed into a failed CHECK, prints it with file and line to stderr and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const std::string& what);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// What to say if `a op b` does not hold; nothing if it does.
template <typename Op, typename A, typename B>
std::optional<std::string> ComparisonFailure(const char* expression, const A& a, const B& b) {
  if (Op()(a, b)) [[likely]]
    return std::nullopt;
  std::ostringstream out;
  out << expression << " (" << a << " against " << b << ")";
  return out.str();
}

}  // namespace trireme::internal

// CHECK(condition) << "more";
// A loop and not an if, so that an `else` after it cannot attach to it; the failure never returns.
#define CHECK(condition) \
  while (!(condition)) ::trireme::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define TRIREME_CHECK_OP_(op, a, b, expression)                                \
  while (const std::optional<std::string> check_failure =                      \
             ::trireme::internal::ComparisonFailure<op>(expression, (a), (b))) \
  ::trireme::internal::CheckFailure(__FILE__, __LINE__, *check_failure).stream()

// CHECK_EQ(a, b) and so on print both values. Each argument is evaluated once.
#define CHECK_EQ(a, b) TRIREME_CHECK_OP_(std::equal_to<>, a, b, #a " == " #b)
#define CHECK_NE(a, b) TRIREME_CHECK_OP_(std::not_equal_to<>, a, b, #a " != " #b)
#define CHECK_LT(a, b) TRIREME_CHECK_OP_(std::less<>, a, b, #a " < " #b)
#define CHECK_LE(a, b) TRIREME_CHECK_OP_(std::less_equal<>, a, b, #a " <= " #b)
#define CHECK_GT(a, b) TRIREME_CHECK_OP_(std::greater<>, a, b, #a " > " #b)
#define CHECK_GE(a, b) TRIREME_CHECK_OP_(std::greater_equal<>, a, b, #a " >= " #b)

// Aborts if `status` is not OK.
#define CHECK_OK(status) CHECK((status).ok()) << (status)

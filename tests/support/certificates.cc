#include "tests/support/certificates.h"

#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace trireme {
namespace {

constexpr char kNewKey[] = " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes ";

void OpenSsl(const std::string& arguments) {
  const std::string command = absl::StrCat("openssl ", arguments, " 2>/dev/null");
  CHECK_EQ(system(command.c_str()), 0) << command;
}

}  // namespace

TestFolder::TestFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "trireme_test_XXXXXX").string();
  CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
  path_ = pattern;
}

TestFolder::~TestFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TestFolder::Write(const std::string& name, const std::string& text) const {
  const std::string fresh = File(name + ".fresh");
  std::ofstream(fresh, std::ios::binary) << text;
  std::filesystem::permissions(fresh, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::rename(fresh, File(name));
  return File(name);
}

TestAuthority::TestAuthority() : own_{folder_.File("ca.pem"), folder_.File("ca.key")} {
  OpenSsl(absl::StrCat("req -x509 -days 1 -subj '/CN=Test authority'", kNewKey, "-keyout ", own_.key, " -out ",
                       own_.certificate));
}

KeyFiles TestAuthority::Issue(const std::string& name, int days) const {
  const KeyFiles issued{folder_.File(name + ".pem"), folder_.File(name + ".key")};
  const std::string request = folder_.File(name + ".csr");
  OpenSsl(absl::StrCat("req -subj /CN=", name, " -addext subjectAltName=DNS:localhost,IP:127.0.0.1", kNewKey,
                       "-keyout ", issued.key, " -out ", request));
  OpenSsl(absl::StrCat("x509 -req -copy_extensions copy -days ", days, " -in ", request, " -CA ", own_.certificate,
                       " -CAkey ", own_.key, " -out ", issued.certificate));
  return issued;
}

std::string ReadAll(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace trireme

// Certificates and keys for tests, made by the openssl command. None is good for more than a day.
#pragma once
#include <filesystem>
#include <string>

namespace trireme {

// A folder that goes with the object.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string File(const std::string& name) const { return (path_ / name).string(); }
  // Writes a file at once, as one who rotates secrets should, and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

// Files.
struct KeyFiles {
  std::string certificate;
  std::string key;
};

// An authority with a certificate of its own. CHECKs that openssl does as it is told.
class TestAuthority {
 public:
  TestAuthority();

  const std::string& certificate() const { return own_.certificate; }  // file

  // A certificate for localhost and 127.0.0.1 in files called `name`.pem and `name`.key.
  KeyFiles Issue(const std::string& name) const { return Issue(name, 1); }
  KeyFiles IssueExpired(const std::string& name) const { return Issue(name, -1); }

 private:
  KeyFiles Issue(const std::string& name, int days) const;

  TestFolder folder_;
  KeyFiles own_;
};

std::string ReadAll(const std::string& file);

}  // namespace trireme

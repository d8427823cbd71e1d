#include "base/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/version.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Options {
  std::string listen = "127.0.0.1:8700";
  std::uint32_t tp_degree = 1;
  std::uint64_t seed = 7;
  std::int32_t priority = 0;
  std::uint32_t seats = 32;
  std::optional<float> temperature;
  double share = 0.5;
  ByteSize memory{std::uint64_t{1} << 30};
  absl::Duration grace = absl::Seconds(30);
  std::vector<std::uint32_t> ids;
  bool json = false;
  bool reflection = true;
};

FlagParser Declare(Options* options) {
  FlagParser flags("prog", "Does things.");
  flags.Add("listen", "ADDR", "where to listen", &options->listen);
  flags.Add("tp-degree", "N", "ranks", &options->tp_degree);
  flags.Add("seed", "N", "seed", &options->seed);
  flags.Add("priority", "N", "priority", &options->priority);
  flags.AddInRange<std::uint32_t>("seats", "N", "requests at a time", 1, 128, &options->seats);
  flags.Add("temperature", "T", "0 is greedy", &options->temperature);
  flags.Add("share", "X", "share", &options->share);
  flags.Add("memory", "BYTES", "for keys and values", &options->memory);
  flags.Add("grace", "TIME", "to finish in", &options->grace);
  flags.Add("ids", "IDS", "token ids", &options->ids);
  flags.AddSwitch("json", "machine-readable", &options->json);
  flags.AddSwitch("reflection", "list services", &options->reflection);
  return flags;
}

std::string ErrorOf(const std::vector<std::string>& arguments) {
  Options options;
  const absl::StatusOr<ParsedFlags> parsed = Declare(&options).Parse(arguments);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

Options Parsed(const std::vector<std::string>& arguments) {
  Options options;
  const absl::StatusOr<ParsedFlags> parsed = Declare(&options).Parse(arguments);
  EXPECT_EQ(parsed.status(), absl::OkStatus());
  EXPECT_EQ(parsed.value_or(ParsedFlags::kShowHelp), ParsedFlags::kRun);
  return options;
}

TEST(Flags, KeepDefaultsWhenNothingIsGiven) {
  const Options options = Parsed({});
  EXPECT_EQ(options.listen, "127.0.0.1:8700");
  EXPECT_EQ(options.temperature, std::nullopt);
  EXPECT_FALSE(options.json);
}

TEST(Flags, TakeValuesAfterASpaceOrAnEqualsSign) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--tp-degree", "3", "--temperature", "0.5", "--json", "--listen", "a=b"},
        std::vector<std::string>{"--tp-degree=3", "--temperature=0.5", "--json=true", "--listen=a=b"}}) {
    const Options options = Parsed(arguments);
    EXPECT_EQ(options.tp_degree, 3u);
    EXPECT_EQ(options.temperature, 0.5f);
    EXPECT_TRUE(options.json);
    EXPECT_EQ(options.listen, "a=b");
  }
}

TEST(Flags, ReadEveryType) {
  const Options options = Parsed({"--seed", "18446744073709551615", "--priority", "-100", "--share", "1e-3", "--memory",
                                  "3MiB", "--grace", "1m30s", "--ids", "1,20,300", "--reflection=false"});
  EXPECT_EQ(options.seed, 18446744073709551615u);
  EXPECT_EQ(options.priority, -100);
  EXPECT_EQ(options.share, 1e-3);
  EXPECT_EQ(options.memory, ByteSize{3u << 20});
  EXPECT_EQ(options.grace, absl::Seconds(90));
  EXPECT_THAT(options.ids, ElementsAre(1u, 20u, 300u));
  EXPECT_FALSE(options.reflection);
}

TEST(Flags, TakeEmptyTextAndTextWithDashes) {
  EXPECT_EQ(Parsed({"--listen="}).listen, "");
  EXPECT_EQ(Parsed({"--listen", ""}).listen, "");
  EXPECT_EQ(Parsed({"--listen", "--json"}).listen, "--json");
}

TEST(Flags, LetTheLastOneWin) { EXPECT_EQ(Parsed({"--tp-degree=3", "--tp-degree=9"}).tp_degree, 9u); }

TEST(Flags, NameWhatIsUnknown) {
  EXPECT_EQ(ErrorOf({"--tp-degre=3"}), "unknown flag \"--tp-degre=3\"");
  EXPECT_EQ(ErrorOf({"-j"}), "unknown flag \"-j\"");
  EXPECT_EQ(ErrorOf({"--"}), "unknown flag \"--\"");
  EXPECT_EQ(ErrorOf({"=3"}), "unexpected argument \"=3\"");
  EXPECT_EQ(ErrorOf({"--json", "model"}), "unexpected argument \"model\"");
}

TEST(Flags, NameTheFlagThatLacksItsValue) { EXPECT_EQ(ErrorOf({"--tp-degree"}), "--tp-degree needs a value (N)"); }

TEST(Flags, NameFlagAndValueWhenMalformed) {
  EXPECT_EQ(ErrorOf({"--tp-degree", "3x"}), "--tp-degree: expected a whole number from 0 to 4294967295, got \"3x\"");
  for (const char* bad : {"", " 3", "-1", "+1", "4294967296", "0x10", "1.0"}) {
    EXPECT_THAT(ErrorOf({"--tp-degree", bad}), HasSubstr(bad));
  }
  for (const char* bad : {"", "0", "129", "-1", "4294967297", "one"}) {
    EXPECT_EQ(ErrorOf({"--seats", bad}),
              "--seats: expected a whole number from 1 to 128, got \"" + std::string(bad) + "\"");
  }
  for (const char* bad : {"", "nan", "inf", "1,5", "1e999"}) {
    EXPECT_THAT(ErrorOf({"--temperature", bad}), HasSubstr("--temperature: expected a finite number"));
  }
  for (const char* bad : {"", "MiB", "1.5GiB", "-1", "20000000TiB", "1MB"}) {
    EXPECT_THAT(ErrorOf({"--memory", bad}), HasSubstr("--memory: expected a number of bytes"));
  }
  for (const char* bad : {"", "5", "-5s", "fast"}) {
    EXPECT_THAT(ErrorOf({"--grace", bad}), HasSubstr("--grace: expected a duration"));
  }
  for (const char* bad : {"", ",", "1,", ",1", "1,,2", "1, 2", "a"}) {
    EXPECT_THAT(ErrorOf({"--ids", bad}), HasSubstr("--ids: expected whole numbers"));
  }
  EXPECT_EQ(ErrorOf({"--json=1"}), "--json: expected true or false, got \"1\"");
}

TEST(Flags, RequireWhatIsRequired) {
  std::string model;
  FlagParser flags("prog", "Does things.");
  flags.AddRequired("model", "DIR", "checkpoint folder", &model);
  EXPECT_EQ(flags.Parse({}).status().message(), "--model DIR is required: checkpoint folder");
  EXPECT_TRUE(flags.Parse({"--model", "x"}).ok());
  EXPECT_EQ(*flags.Parse({"--help"}), ParsedFlags::kShowHelp);
}

TEST(Flags, UseTheCallersParser) {
  int device = 0;
  FlagParser flags("prog", "Does things.");
  flags.AddParsed(
      "device", "DEVICE", "where to compute",
      [&](std::string_view text) {
        device = text == "cpu" ? 1 : 2;
        return device == 1 ? absl::OkStatus() : absl::InvalidArgumentError("expected cpu");
      },
      "cpu");
  EXPECT_TRUE(flags.Parse({"--device=cpu"}).ok());
  EXPECT_EQ(device, 1);
  EXPECT_EQ(flags.Parse({"--device", "gpu"}).status().message(), "--device: expected cpu");
  EXPECT_THAT(flags.Help(), HasSubstr("--device DEVICE  where to compute (default cpu)\n"));
}

TEST(Flags, MayRepeat) {
  std::vector<std::string> stops;
  FlagParser flags("program", "summary");
  flags.AddRepeated("stop", "TEXT", "ends the output", &stops);
  ASSERT_TRUE(flags.Parse({"--stop", "a", "--stop=b,c", "--stop", "a", "--stop="}).ok());
  EXPECT_THAT(stops, ElementsAre("a", "b,c", "a", ""));
  EXPECT_THAT(flags.Help(), HasSubstr("  --stop TEXT  ends the output; may be repeated\n"));
}

TEST(Flags, ShowFlagsAndDefaultsInTheHelp) {
  Options options;
  const std::string help = Declare(&options).Help();
  EXPECT_THAT(help, testing::StartsWith("prog: Does things.\n"));
  EXPECT_THAT(help, HasSubstr("  --listen ADDR    where to listen (default 127.0.0.1:8700)\n"));
  EXPECT_THAT(help, HasSubstr("  --temperature T  0 is greedy\n"));
  EXPECT_THAT(help, HasSubstr("  --memory BYTES   for keys and values (default 1GiB)\n"));
  EXPECT_THAT(help, HasSubstr("  --grace TIME     to finish in (default 30s)\n"));
  EXPECT_THAT(help, HasSubstr("  --reflection     list services (default true)\n"));
  EXPECT_THAT(help, HasSubstr("  --version        show the version\n"));
}

TEST(Flags, ShowGroupsUnderTheirTitles) {
  Options options;
  bool has_reflection = true;
  std::string key;
  FlagParser flags("prog", "Does things.");
  flags.Add("listen", "ADDR", "where to listen", &options.listen);
  flags.BeginGroup("Security");
  flags.Add("tls-key", "FILE", "private key", &key);
  flags.AddSwitch("reflection", "list services", &has_reflection);
  EXPECT_EQ(flags.Help(),
            "prog: Does things.\n"
            "\nFlags:\n"
            "  --listen ADDR   where to listen (default 127.0.0.1:8700)\n"
            "  --help          show this text\n"
            "  --version       show the version\n"
            "\nSecurity:\n"
            "  --tls-key FILE  private key\n"
            "  --reflection    list services (default true)\n");
}

TEST(FlagsDeathTest, RefuseASecondDeclaration) {
  Options options;
  FlagParser flags = Declare(&options);
  EXPECT_DEATH(flags.AddSwitch("json", "again", &options.json), "--json is declared twice");
}

TEST(ParseOrExit, GoesOnOrSaysWithWhichStatusToEnd) {
  Options options;
  const FlagParser flags = Declare(&options);
  std::ostringstream out, err;
  EXPECT_EQ(ParseOrExit(flags, {"--json"}, out, err), std::nullopt);
  EXPECT_EQ(out.str() + err.str(), "");

  EXPECT_EQ(ParseOrExit(flags, {"--help"}, out, err), 0);
  EXPECT_EQ(out.str(), flags.Help());

  out.str("");
  EXPECT_EQ(ParseOrExit(flags, {"--version"}, out, err), 0);
  EXPECT_EQ(out.str(), "trireme " + std::string(BuildId()) + "\n");
  EXPECT_EQ(err.str(), "");

  EXPECT_EQ(ParseOrExit(flags, {"--nope"}, out, err), 2);
  EXPECT_EQ(err.str(), "prog: unknown flag \"--nope\"\nSee prog --help.\n");
}

}  // namespace
}  // namespace trireme

// Inbox gives its reader every message once and in each sender's order, and wakes it.
#include "engine/base/inbox.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sluice::engine {
namespace {

TEST(InboxTest, DrainTakesAllAtOnce) {
  Inbox<int> inbox;
  EXPECT_TRUE(inbox.Push(1));
  EXPECT_TRUE(inbox.Push(2));
  std::vector<int> items = {7};
  EXPECT_TRUE(inbox.Drain(&items, true));
  EXPECT_EQ(items, (std::vector<int>{1, 2}));
  EXPECT_TRUE(inbox.Drain(&items, false));
  EXPECT_TRUE(items.empty());
}

TEST(InboxTest, AClosedInboxRefusesAndStillGivesWhatItHas) {
  Inbox<int> inbox;
  inbox.Push(1);
  inbox.Close();
  EXPECT_FALSE(inbox.Push(2));
  std::vector<int> items;
  EXPECT_FALSE(inbox.Drain(&items, true));
  EXPECT_EQ(items, std::vector<int>{1});
  EXPECT_FALSE(inbox.Drain(&items, true)) << "waiting on a closed inbox returns";
  EXPECT_TRUE(items.empty());
}

TEST(InboxTest, EverySendersMessagesComeOnceAndInOrder) {
  constexpr int kSenders = 3;
  constexpr int kMessages = 5000;
  Inbox<std::pair<int, int>> inbox;
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender)
    senders.emplace_back([&, sender] {
      for (int i = 0; i < kMessages; ++i) inbox.Push({sender, i});
    });
  std::vector<int> next(kSenders, 0);
  std::vector<std::pair<int, int>> items;
  for (int received = 0; received < kSenders * kMessages;) {
    ASSERT_TRUE(inbox.Drain(&items, true));
    ASSERT_FALSE(items.empty());
    for (const auto& [sender, i] : items) ASSERT_EQ(next[static_cast<size_t>(sender)]++, i);
    received += static_cast<int>(items.size());
  }
  for (auto& sender : senders) sender.join();
}

}  // namespace
}  // namespace sluice::engine

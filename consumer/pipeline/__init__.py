"""One round after another: ConsumerManager -> TableConsumer -> TableVersionConsumer."""

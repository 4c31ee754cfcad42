"""The lane without a GPU: every kernel in the checked emulator; whether its checks detect injected defects."""

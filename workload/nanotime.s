// Empty: without an assembly file the compiler refuses nanotime, which has no body here.

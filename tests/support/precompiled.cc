// The program whose precompiled header all tests use (cmake/sluice.cmake); it does nothing.
int main() {}

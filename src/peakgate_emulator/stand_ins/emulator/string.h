// Macros before functions of types that exist on the host and on the device.
extern "C" {
size_t strlen(const char*) noexcept;
int strcmp(const char*, const char*) noexcept;
int strncmp(const char*, const char*, size_t) noexcept;
char* strcpy(char*, const char*) noexcept;
char* strncpy(char*, const char*, size_t) noexcept;
}

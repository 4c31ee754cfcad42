namespace thrust {
template <class T> struct device_ptr {
    T* held;
    device_ptr() = default;
    explicit device_ptr(T* pointer) : held(pointer) {}
    T* get() const { return held; }
};
template <class T> device_ptr<T> device_pointer_cast(T* pointer) { return device_ptr<T>(pointer); }
template <class T> T* raw_pointer_cast(device_ptr<T> pointer) { return pointer.held; }
template <class T> T* raw_pointer_cast(T* pointer) { return pointer; }
}

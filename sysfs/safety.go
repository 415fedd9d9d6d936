package sysfs

// Refusal is a reason not to touch a device, and what to type so that it can be.
type Refusal struct{ Device, Reason, Fix string }

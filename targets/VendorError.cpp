#include "targets/VendorError.h"

char tessera::VendorError::ID = 0;

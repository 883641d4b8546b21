"""What each command does once its options are read: read, call the library, print, write."""

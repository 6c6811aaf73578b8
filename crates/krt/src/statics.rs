//! Collections whose content the program sets itself: update, delete, reset, conditional update.

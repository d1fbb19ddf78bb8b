//! Types of values that several modules read, and formats that several write.

pub mod config_obj;
pub mod encoded_content;
pub mod text_values;

//! Tables, pictures and one HTML page from the lab's records

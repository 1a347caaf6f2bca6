//! belljar as a Jupyter kernel: sessions behind the messages of notebooks.

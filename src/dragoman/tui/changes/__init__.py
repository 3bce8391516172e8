"""What turns changed, as a user reviews it and takes it back: models and lines, no widgets. `review_model.py` first."""

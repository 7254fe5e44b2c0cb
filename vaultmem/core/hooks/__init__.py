"""What agents tell at their events, and what they are told back."""

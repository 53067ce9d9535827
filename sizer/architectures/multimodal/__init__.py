"""Models that read images or sound besides text."""

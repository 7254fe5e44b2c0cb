"""A vault is looked after: curate, dream, compact, and doubts."""

"""The object an application talks to: named features and classes around a learner."""

"""What a result is made of: one typed record a subject, each field declared once with its type, bounds and sentence."""

"""How the values of MySQL types are held in Arrow arrays and turned from one written form into another."""

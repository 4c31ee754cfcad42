"""How samples are taken: input data, placement of arrays, when to stop. Pure: no device."""

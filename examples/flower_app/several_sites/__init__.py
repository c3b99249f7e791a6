"""An app of Flower that fits one private model over several sites."""

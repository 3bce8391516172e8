import unittest

from slugs import slugify


class Slugs(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slugify("Hello World"), "hello-world")

    def test_digits(self):
        self.assertEqual(slugify("Top 10!"), "top-10")

    def test_one_dash(self):
        self.assertEqual(slugify("  a -- b: c  "), "a-b-c")

    def test_length(self):
        self.assertEqual(slugify("one two three four five six seven eight nine"), "one-two-three-four-five-six-seven-eight")
        self.assertEqual(slugify("x" * 50), "x" * 40)
        self.assertEqual(slugify("a" * 39 + " bc"), "a" * 39)

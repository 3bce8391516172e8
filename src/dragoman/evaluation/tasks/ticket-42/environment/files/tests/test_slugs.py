import unittest

from slugs import slugify


class Slugs(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slugify("Hello World"), "hello-world")

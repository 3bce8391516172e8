import unittest

import alarm
import timer


class Same(unittest.TestCase):
    def test_same_function(self):
        self.assertIs(timer.parse_duration, alarm.parse_duration)

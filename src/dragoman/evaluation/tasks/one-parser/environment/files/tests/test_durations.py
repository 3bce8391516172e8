import unittest

import alarm
import timer


class Durations(unittest.TestCase):
    def test_values(self):
        for text, seconds in {"90": 90, "1h 30min": 5400, "2 days": 172800, "-90s": -90, "1.5h": 5400, "1w, 2d": 777600, "5ms": 0.005}.items():
            self.assertEqual(timer.parse_duration(text), seconds)
            self.assertEqual(alarm.parse_duration(text), seconds)

    def test_errors(self):
        for text in ("", "-", "h", "1x", "1h 2h", "1min 1h", "1h,", "1.2.3s", "1h 5"):
            for module in (timer, alarm):
                with self.assertRaises(ValueError, msg=text):
                    module.parse_duration(text)

    def test_users(self):
        self.assertTrue(timer.Timer("1min").is_over(60))
        self.assertEqual(alarm.ring_times(0, "10s", 3), [0, 10, 20])

import unittest

from planner.queue_of_jobs import JobQueue
from planner.step_03 import make


class Planner(unittest.TestCase):
    def test_queue(self):
        queue = JobQueue()
        queue.add(make())
        self.assertEqual(queue.jobs[0].cost, 3)

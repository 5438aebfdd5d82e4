"""Domains of points on a geometry: public and declared.

Points are counted on the grid of a bounding box. A public table says which of its cells hold a part
of the geometry, and where the points of the other cells count. So the finest cell decides, alike on
every engine: the fate of a row depends on its cell alone, and on no other row.

Coordinates are taken as they are: areas, lengths and distances are those of the plane. Project
degrees first where a degree of longitude must count as much as it is long.
"""

from tailrace.domain.geometry.places import Places, from_dict
from tailrace.domain.geometry.points import Region, Roads, measure_of_cells

__all__ = ["Places", "Region", "Roads", "from_dict", "measure_of_cells"]
